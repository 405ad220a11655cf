package rollback

import _ "github.com/boocode/filestore/internal/testdisk"
