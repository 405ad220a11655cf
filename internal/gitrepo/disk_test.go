package gitrepo

import _ "github.com/boocode/filestore/internal/testdisk"
