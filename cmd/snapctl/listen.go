package main

import (
	"net"
	"sync"
)

// maxConns is how many connections a server by TCP has at once. All users of the machine can
// connect to a loopback port, and a process has 1,024 descriptors as a rule, which its captures and
// restores need as well.
const maxConns = 256

// listenTCP listens at an address. Who connects while maxConns others are connected waits.
func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &fewConns{Listener: l, room: make(chan struct{}, maxConns), closed: make(chan struct{})}, nil
}

// A fewConns is a [net.Listener] with so many connections at once as room has places.
type fewConns struct {
	net.Listener
	room   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *fewConns) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &oneConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *fewConns) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A oneConn gives its place to another when it is closed.
type oneConn struct {
	net.Conn
	leave func()
}

func (c *oneConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
