package main

import (
	"errors"
	"net"
	"testing"
	"time"
)

// So many connections are accepted as there is room for, the next one when one of them is closed, and
// nobody waits for a listener that is closed.
func TestListenTCP(t *testing.T) {
	l, err := listenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	var ours []net.Conn
	for range maxConns + 1 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range maxConns {
		c := <-accepted
		defer c.Close()
		ours = append(ours, c)
	}
	select {
	case <-accepted:
		t.Fatal("one more was accepted")
	case <-time.After(50 * time.Millisecond): // more than it takes
	}
	ours[0].Close()
	ours[0].Close() // a second time gives no second place
	ours = append(ours[1:], <-accepted)
	defer ours[len(ours)-1].Close()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept of a closed listener: %v", err)
	}
}
