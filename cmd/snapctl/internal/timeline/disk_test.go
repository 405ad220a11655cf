package timeline

import _ "github.com/boocode/filestore/internal/testdisk"
