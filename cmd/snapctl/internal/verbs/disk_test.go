package verbs

import _ "github.com/boocode/filestore/internal/testdisk"
