//go:build !linux && !darwin

package rpc

import "net"

// checkPeer leaves it to the modes of the socket and the store's directory.
func checkPeer(*net.UnixConn) error { return nil }
