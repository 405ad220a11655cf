package manager

import _ "github.com/boocode/filestore/internal/testdisk"
