package near

import _ "github.com/boocode/filestore/internal/testdisk"
