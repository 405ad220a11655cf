package near

const nonblock = 0 // no name is a pipe
