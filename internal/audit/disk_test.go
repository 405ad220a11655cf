package audit

import _ "github.com/boocode/filestore/internal/testdisk"
