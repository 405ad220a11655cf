package livedir

import _ "github.com/boocode/filestore/internal/testdisk"
