package wire

import "golang.org/x/sys/unix"

// peerOf returns which user is at the other end of a socket.
func peerOf(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
