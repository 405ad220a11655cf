package gitrepo_test

import (
	"fmt"
	"log"

	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/ignore"
)

func ExampleFind() {
	repo, ok, err := gitrepo.Find("/home/me/project/src")
	if err != nil {
		log.Fatal(err)
	}
	if !ok {
		return // not below a repository
	}
	opts, err := repo.IgnoreOptions(gitrepo.Env{Home: "/home/me", SystemConfig: "/etc/gitconfig"})
	if err != nil {
		log.Fatal(err)
	}
	index, err := repo.Index()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ignore.Root(opts).Match("debug.log", false) && !index.Tracked("debug.log"))
}
