package layout

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/vfs"
)

// Files beside packs and segments.
const (
	FormatName    = "FORMAT"    // what the store is (docs/reference/format.md §2)
	ForgottenName = "forgotten" // IDs of blobs that were taken out of all snapshots on purpose (§5.7)
	AcceptedName  = "accepted"  // what was lost for good, as somebody has accepted (§5.8)
	BallastName   = "ballast"   // space for whoever has to free some
)

// Locks, in the order in which a process that needs several takes them; docs/reference/concurrency.md
// says who holds each while what is done. A lock file is never deleted, but that of an
// epoch that is over: deleting one would let two processes hold "the" lock on two inodes.
const (
	UseLock    = "locks/use"    // 1: whoever has the store open; who moves it
	PlacesLock = "locks/places" // 2
	// 3 is TurnsLock of a worktree.
	RepairLock = "locks/repair" // 4: prunes and repairs
	// 5 is EpochLock, 6 the lock of an open turn, 7 that of a pack.
	JournalLock = "locks/journal" // 8: whoever appends

	// No other lock is taken under these, or nobody waits for them.
	ServeLock   = "locks/serve"     // the process that serves the store; its number is in it
	ServingLock = "locks/serving"   // until that process has closed the store
	HungName    = "locks/hung"      // number of a process that does not answer; not locked
	LateName    = "locks/late"      // what hooks know of a process that keeps them waiting; not locked
	AutoLock    = "locks/autoprune" // the daily prune; its time stamp is that of the last try
	HealthLock  = "locks/health"
	ProbeLock   = "locks/probe" // which boot of the machine has found that locks exclude
)

// EpochLock is the lock that writers of an epoch share.
func EpochLock(n uint64) string { return fmt.Sprintf("locks/epoch-%d", n) }

// A Worktree is the identity of a captured directory: the name of what a store keeps of it.
type Worktree string

// Worktrees is the directory of all.
const Worktrees = "worktrees"

func (w Worktree) Dir() string       { return Worktrees + "/" + string(w) }
func (w Worktree) Cache() string     { return w.Dir() + "/statcache" }
func (w Worktree) CacheLock() string { return w.Dir() + "/lock" }
func (w Worktree) Turns() string     { return w.Dir() + "/turns" } // the turns that are open
func (w Worktree) TurnsLock() string { return w.Dir() + "/turns.lock" }
func (w Worktree) Sessions() string  { return w.Dir() + "/sessions" }
func (w Worktree) Cloned() string    { return w.Dir() + "/cloned" }       // logs of runtimes that a clone has brought
func (w Worktree) Secrets() string   { return w.Dir() + "/secrets" }      // files that seem to hold some
func (w Worktree) Reviewed() string  { return w.Dir() + "/reviewed" }     // hunks that somebody has looked at
func (w Worktree) Blame() string     { return w.Dir() + "/blame" }        // whose lines are: derived
func (w Worktree) Left() string      { return w.Dir() + "/left" }         // paths that clone --only has left out
func (w Worktree) HookLock() string  { return "locks/hook-" + string(w) } // before TurnsLock

// What a bisect of a worktree keeps: a directory in which commands are run, and files that say
// how far it is, and that a process is at it.
func (w Worktree) Bisect() string      { return w.Dir() + "/bisect" }
func (w Worktree) BisectState() string { return w.Dir() + "/bisect.state" }
func (w Worktree) BisectLock() string  { return w.Dir() + "/bisect.lock" }

func PackName(id [16]byte) string { return "packs/" + hex.EncodeToString(id[:]) + ".pack" }

func IndexName(id [16]byte) string { return "packs/" + hex.EncodeToString(id[:]) + ".idx" }

// NewPackName is the name of a pack that no commit has had need of yet.
func NewPackName(id [16]byte) string { return "tmp/" + hex.EncodeToString(id[:]) + ".pack" }

func ParsePackID(name, suffix string) (id [16]byte, ok bool) {
	if len(name) != 32+len(suffix) || name[32:] != suffix {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(name[:32]))
	return id, n == 16 && err == nil
}

func SegmentName(seg uint64) string { return fmt.Sprintf("journal/%08d.log", seg) }

func SegmentID(seg uint64) (id [16]byte) {
	Le.PutUint64(id[:], seg)
	return id
}

// HasPacks reports whether there is any pack.
func HasPacks(fsys vfs.FS) (bool, error) {
	names, err := fsys.ReadDir("packs")
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := ParsePackID(name, ".pack")
		return ok
	}), err
}

func SummaryName(seg uint64) string { return fmt.Sprintf("journal/%08d.sum", seg) }
