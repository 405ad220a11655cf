package cas

import _ "github.com/boocode/filestore/internal/testdisk"
