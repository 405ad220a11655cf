package httpapi

import _ "github.com/boocode/filestore/internal/testdisk"
