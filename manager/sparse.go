package manager

import (
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/livedir"
)

// whyBroughtBack is why a restore does not delete a file that was not there.
const whyBroughtBack = "git's sparse checkout had left it out at that time"

// checkout returns what git says of the directory now.
func (m *FileSnapshotManager) checkout() (*capture.Checkout, error) {
	ws, err := m.engine.workspace(m.tree)
	if err != nil {
		return nil, err
	}
	return ws.Checkout(), nil
}

// markTakenOut says of files that are wanted, and that git has taken out, that
// they are not to be put back.
func (m *FileSnapshotManager) markTakenOut(wants []livedir.Want) error {
	git, err := m.checkout()
	if err != nil {
		return err
	}
	for i := range wants {
		if w := &wants[i]; w.New != nil && !w.New.Mode.IsDir() && git.TakenOut(w.Path) {
			w.Out = git.WhyOut()
		}
	}
	return nil
}
