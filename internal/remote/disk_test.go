package remote_test

import _ "github.com/boocode/filestore/internal/testdisk"
