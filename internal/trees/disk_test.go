package trees

import _ "github.com/boocode/filestore/internal/testdisk"
