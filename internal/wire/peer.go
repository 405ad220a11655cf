//go:build linux || darwin

package wire

import (
	"net"
	"os"

	"github.com/boocode/filestore/internal/vfs"
)

// CheckPeer refuses other users at the other end, whatever the modes of the socket
// say: who connected, or who listened. The error is a [*vfs.ForeignError].
func CheckPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var uid int
	if cerr := raw.Control(func(fd uintptr) { uid, err = peerOf(int(fd)) }); cerr != nil {
		return cerr
	}
	if self := os.Geteuid(); err == nil && uid != self {
		err = &vfs.ForeignError{Owner: uid, Self: self}
	}
	return err
}
