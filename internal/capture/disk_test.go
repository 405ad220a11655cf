package capture

import _ "github.com/boocode/filestore/internal/testdisk"
