package store

import _ "github.com/boocode/filestore/internal/testdisk"
