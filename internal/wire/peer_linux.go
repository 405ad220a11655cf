package wire

import "golang.org/x/sys/unix"

// peerOf returns which user is at the other end of a socket.
func peerOf(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
