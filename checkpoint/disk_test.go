package checkpoint

import _ "github.com/boocode/filestore/internal/testdisk"
