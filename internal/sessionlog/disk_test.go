package sessionlog

import _ "github.com/boocode/filestore/internal/testdisk"
