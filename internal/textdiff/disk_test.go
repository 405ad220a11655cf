package textdiff

import _ "github.com/boocode/filestore/internal/testdisk"
