package main

import _ "github.com/boocode/filestore/internal/testdisk"
