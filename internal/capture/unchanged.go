package capture

import (
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/tree"
)

// unchanged returns what the last capture that the cache has learned from found, if this
// one would find the same: the watcher has told of nothing since, and there is nothing of
// which it might not tell. nil: somebody has to look. Workspace.lock is held.
func (c *capture) unchanged() *tree.Result {
	ws := c.ws
	r, old := ws.latest, c.cache.block(0)
	if ws.watcher == nil || r == nil || old == nil || r.Partial || r.Files+r.Symlinks > c.limits.Files ||
		ws.rules.ID() != ws.latestRules {
		return nil
	}
	dir, err := ws.openDir(ws.Root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	var st vfs.Stat
	if err := dir.Stat(&st); err != nil || st.Ino != old.ino() || st.Dev != old.dev() {
		return nil
	}
	c.takeChanges()
	if !c.skip || c.changes != nil || c.cache.sum(0).allMarks&c.stops() != 0 {
		return nil
	}
	c.progress.Files.Add(r.Files + r.Symlinks)
	again := *r
	again.ReadFiles, again.ReadBytes = 0, 0
	return &again
}
