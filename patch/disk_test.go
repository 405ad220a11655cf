package patch

import _ "github.com/boocode/filestore/internal/testdisk"
