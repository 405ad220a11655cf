//go:build !windows

package near

import "syscall"

// nonblock keeps an open from waiting for who writes into a pipe.
const nonblock = syscall.O_NONBLOCK
