package tree

import _ "github.com/boocode/filestore/internal/testdisk"
