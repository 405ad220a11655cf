package capture

import (
	"sync"

	"github.com/boocode/filestore/internal/gitrepo"
)

// A Checkout says which files git has put into a workspace, and which it has
// taken out, by its index as it is when something is asked first.
type Checkout struct {
	ws     *Workspace
	index  func() *gitrepo.Index  // nil: there is none, or it cannot be read
	sparse func() *gitrepo.Sparse // nil: nothing is taken out
}

// Checkout returns what git says of the workspace. Where it has taken out
// nothing, that costs the reading of a few bytes. If the index cannot be read,
// that is logged, and git has nothing to say.
func (ws *Workspace) Checkout() *Checkout {
	c := &Checkout{ws: ws}
	c.index = sync.OnceValue(func() *gitrepo.Index {
		index, _ := ws.gitIndex() // which has logged the error
		return index
	})
	c.sparse = sync.OnceValue(func() *gitrepo.Sparse {
		repo := ws.repo.Load()
		if repo == nil {
			return nil
		}
		if may, err := repo.MaySkip(); !may && err == nil {
			return nil
		}
		if index := c.index(); index != nil {
			return index.Sparse()
		}
		return nil
	})
	return c
}

// TakenOut reports whether git tracks a file and has taken it out of the
// directory. Somebody may have put one there all the same.
func (c *Checkout) TakenOut(path string) bool {
	sparse := c.sparse()
	path = c.ws.gitPath(path)
	return sparse != nil && sparse.Has(path) && c.index().Tracked(path)
}

// Holds reports whether git tracks a file and has not taken it out.
func (c *Checkout) Holds(path string) bool {
	index := c.index()
	return index != nil && index.Tracked(c.ws.gitPath(path)) && !c.TakenOut(path)
}
