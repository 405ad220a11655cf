package exchange

import _ "github.com/boocode/filestore/internal/testdisk"
