package secrets

import _ "github.com/boocode/filestore/internal/testdisk"
