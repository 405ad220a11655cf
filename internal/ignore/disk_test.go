package ignore

import _ "github.com/boocode/filestore/internal/testdisk"
