package rpc

import _ "github.com/boocode/filestore/internal/testdisk"
