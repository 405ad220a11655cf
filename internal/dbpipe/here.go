package dbpipe

import "io"

// Here returns a [Serve] that runs in this process, for tests of what uses a [Connector].
func Here() io.ReadWriteCloser {
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	h := &here{toIn, fromOut, make(chan error, 1)}
	go func() {
		err := Serve(in, out)
		in.Close()
		out.Close()
		h.ended <- err
	}()
	return h
}

type here struct {
	io.WriteCloser // its input
	io.Reader      // its output
	ended          chan error
}

// Close ends the input, and waits until it has ended.
func (h *here) Close() error {
	h.WriteCloser.Close()
	return <-h.ended
}
