//go:build !linux && !darwin

package wire

import "net"

// CheckPeer leaves it to the modes of the socket and the store's directory.
func CheckPeer(*net.UnixConn) error { return nil }
