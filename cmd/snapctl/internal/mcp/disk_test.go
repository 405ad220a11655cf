package mcp

import _ "github.com/boocode/filestore/internal/testdisk"
