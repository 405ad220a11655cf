package base

import _ "github.com/boocode/filestore/internal/testdisk"
