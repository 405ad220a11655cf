package client

import _ "github.com/boocode/filestore/internal/testdisk"
