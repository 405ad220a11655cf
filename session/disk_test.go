package session

import _ "github.com/boocode/filestore/internal/testdisk"
