package lines

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/boocode/filestore/internal/remote"
)

// This file is the ledger of prunes (docs/reference/format-remote.md §7): what counts, and what
// does not.

// A Ledger is what prunes have said, as far as it was read. The zero Ledger is of a remote that was
// never pruned. It is not changed once it is there.
type Ledger struct {
	Newest    uint64            // number of the newest object that was read
	Open      *Announcement     // of a prune that has not ended; nil: none is under way
	Prune     uint64            // number of the announcement of the prune that ended last; 0: none
	Kept      map[Line]*Kept    // what counts of what was there before that
	Forgotten map[[32]byte]bool // contents that were taken out on purpose
	hash      [32]byte          // of the newest
	manifest  PackRef
}

// An Announcement is what a prune says before it looks at what there is.
type Announcement struct {
	Number uint64
	Going  []Line     // that go, unless they get longer
	Forget [][32]byte // contents that are to go, too
	By     [16]byte   // two that announce the same are two
}

// On is an entry that a line counts on.
type On struct {
	Dir   string
	Line  Line
	Entry uint64
}

// Kept is a line that counts, up to an entry.
type Kept struct {
	Dir    string
	Line   Line
	Last   uint64   // entry
	Hash   [32]byte // of it
	Newest int64    // when its newest record is from, Unix seconds; 0: it has none
	Named  bool     // a record of it has a name
	On     []On
	Packs  []PackRef
	Void   []uint64 // entries that do not count
	Folds  []Fold
}

// Folded returns how many entries of a line are in folds, and no longer in the log.
func (k *Kept) Folded() uint64 {
	if k == nil || len(k.Folds) == 0 {
		return 0
	}
	return k.Folds[len(k.Folds)-1].To + 1
}

// FoldOf returns the fold that an entry is in, nil if it is in none.
func (k *Kept) FoldOf(n uint64) *Fold {
	if k == nil {
		return nil
	}
	i := slices.IndexFunc(k.Folds, func(f Fold) bool { return f.From <= n && n <= f.To })
	if i < 0 {
		return nil
	}
	return &k.Folds[i]
}

// A Fold is a pack with entries of a line, from one to another.
type Fold struct {
	From, To uint64
	Pack     PackRef
}

// Counts reports whether an entry counts of which the writer knew of a generation: whether a prune that
// ended can have taken away what it needs.
func (l *Ledger) Counts(line Line, n, generation uint64) bool {
	if generation >= l.Prune {
		return true
	}
	k := l.Kept[line]
	return k != nil && n <= k.Last && !slices.Contains(k.Void, n)
}

// IsGoing reports whether a line is about to go.
func (l *Ledger) IsGoing(line Line) bool {
	return l.Open != nil && slices.Contains(l.Open.Going, line)
}

// Lives reports whether a line may be gone on with, or counted on, that was opened in a generation.
func (l *Ledger) Lives(line Line, opened uint64) bool {
	return !l.IsGoing(line) && (opened >= l.Prune || l.Kept[line] != nil)
}

// IsForgotten reports whether a content is not to be put there: it was forgotten, or is about to be.
func (l *Ledger) IsForgotten(id [32]byte) bool {
	return l.Forgotten[id] || l.Open != nil && slices.Contains(l.Open.Forget, id)
}

// Objects of the ledger.
const (
	ledgerMagic  = "booldgr\n"
	kindAnnounce = 1
	kindDone     = 2
	kindKeys     = 3
	kindWithdraw = 4

	ledgerKind   = 1 // tags
	ledgerGoing  = 2
	ledgerForget = 3
	ledgerPack   = 4
	ledgerBy     = 5
)

func ledgerKey(n uint64) string { return fmt.Sprintf("ledger/%08d", n) }

// Ledger returns what is known of the ledger by now: what [Repo.Refresh] has read last.
func (r *Repo) Ledger() *Ledger {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ledger
}

// Refresh reads what is new in the ledger, and reports whether anything is.
func (r *Repo) Refresh(ctx context.Context) (l *Ledger, changed bool, err error) {
	for range 20 { // somebody may prune and prune
		was := r.Ledger()
		l, err = r.readLedger(ctx, was)
		if errors.Is(err, remote.ErrNoKey) { // the next prune has ended meanwhile
			continue
		}
		if err != nil {
			return was, false, err
		}
		r.mu.Lock()
		if l.Newest > r.ledger.Newest {
			r.ledger = l
		}
		l = r.ledger
		r.isFresh = true
		r.mu.Unlock()
		return l, l.Newest != was.Newest, nil
	}
	if gone, ok := errors.AsType[*goneError](err); ok {
		err = damaged(gone.key, errMissing)
	}
	return nil, false, err
}

// known returns the ledger, which is read if it never was.
func (r *Repo) known(ctx context.Context) (*Ledger, error) {
	r.mu.Lock()
	l, ok := r.ledger, r.isFresh
	r.mu.Unlock()
	if ok {
		return l, nil
	}
	l, _, err := r.Refresh(ctx)
	return l, err
}

// CheckLedger reads all of the ledger, also what does not matter any more. It returns what is damaged.
func (r *Repo) CheckLedger(ctx context.Context) (damage []DamageError, err error) {
	l, err := r.known(ctx)
	var next [32]byte
	for n := l.Newest; err == nil && n > 0; n-- {
		var x *ledgerObject
		var hash [32]byte
		x, hash, err = r.ledgerObject(ctx, n)
		if d, ok := errors.AsType[*DamageError](err); ok {
			damage, err, next = append(damage, *d), nil, [32]byte{}
			continue
		}
		if err != nil {
			break
		}
		if next != [32]byte{} && hash != next {
			damage = append(damage, DamageError{ledgerKey(n), errors.New("it is not the one that the next is behind")})
		}
		next = x.prev
	}
	return damage, err
}

// Load reads the ledger if it never was.
func (r *Repo) Load(ctx context.Context) error {
	_, err := r.known(ctx)
	return err
}

// readLedger returns a ledger with what came since another.
func (r *Repo) readLedger(ctx context.Context, was *Ledger) (*Ledger, error) {
	last := was.Newest
	r.mu.Lock()
	isKnown := r.isFresh
	r.mu.Unlock()
	if last == 0 && isKnown { // a LIST costs as much as twelve of these
		_, err := r.b.Stat(ctx, ledgerKey(1))
		if errors.Is(err, remote.ErrNoKey) {
			return was, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if last == 0 { // there may be many: only the newest matter
		for item, err := range r.b.List(ctx, "ledger/", "") {
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseUint(item.Key[len("ledger/"):], 10, 64)
			if err != nil || ledgerKey(n) != item.Key || n != last+1 {
				return nil, damaged(ledgerKey(last+1), errors.New("it is missing, or another is there"))
			}
			last = n
		}
	} else {
		for {
			_, err := r.b.Stat(ctx, ledgerKey(last+1))
			if errors.Is(err, remote.ErrNoKey) {
				break
			}
			if err != nil {
				return nil, err
			}
			last++
		}
	}
	if last == was.Newest {
		return was, nil
	}
	return r.readObjects(ctx, was, last)
}

// readObjects reads objects of the ledger, from the last back to the newest prune that ended.
func (r *Repo) readObjects(ctx context.Context, was *Ledger, last uint64) (*Ledger, error) {
	l := *was
	l.Newest, l.Open = last, nil
	var next [32]byte // what the object behind says of the hash of this one
	for n := last; n > was.Newest; n-- {
		x, hash, err := r.ledgerObject(ctx, n)
		if err != nil {
			return nil, err
		}
		if n == last {
			l.hash = hash
		} else if hash != next {
			return nil, damaged(ledgerKey(n), errors.New("it is not the one that the next is behind"))
		}
		next = x.prev
		switch {
		case x.kind == kindAnnounce && n == last:
			l.Open = &Announcement{n, x.going, x.forget, x.by}
		case x.kind == kindDone:
			l.Prune, l.manifest = n-1, *x.manifest
			return &l, r.readManifest(ctx, &l)
		}
	}
	return &l, nil
}

// ledgerObject is an object of the ledger.
type ledgerObject struct {
	kind     byte
	going    []Line
	forget   [][32]byte
	manifest *PackRef
	by       [16]byte
	prev     [32]byte
}

func (x *ledgerObject) body() []byte {
	b := field(nil, ledgerKind, []byte{x.kind})
	for _, l := range x.going {
		b = field(b, ledgerGoing, l[:])
	}
	for _, id := range x.forget {
		b = field(b, ledgerForget, id[:])
	}
	if x.manifest != nil {
		b = field(b, ledgerPack, x.manifest.bytes())
	}
	return field(b, ledgerBy, x.by[:])
}

var errLedger = errors.New("it is not as an object of the ledger has to be")

func parseLedgerObject(b []byte) (*ledgerObject, error) {
	x := new(ledgerObject)
	last := uint8(0)
	for tag, v := range fields(b) {
		if tag < last || tag == 0 {
			return nil, errLedger
		}
		isAgain := tag == last
		last = tag
		want := map[uint8]int{ledgerKind: 1, ledgerGoing: 16, ledgerForget: 32, ledgerPack: packRefSize, ledgerBy: 16}
		if n, ok := want[tag]; ok && len(v) != n || isAgain && tag != ledgerGoing && tag != ledgerForget {
			return nil, errLedger
		}
		switch tag {
		case ledgerKind:
			x.kind = v[0]
		case ledgerGoing:
			x.going = append(x.going, Line(v))
		case ledgerForget:
			x.forget = append(x.forget, [32]byte(v))
		case ledgerPack:
			var ok bool
			if x.manifest, ok = parsePackRef(v); !ok {
				return nil, errLedger
			}
		case ledgerBy:
			x.by = [16]byte(v)
		default:
			return nil, fmt.Errorf("%w: field %d of the ledger", ErrNewer, tag)
		}
	}
	if x.kind < kindAnnounce || x.kind > kindWithdraw {
		return nil, fmt.Errorf("%w: an object of the ledger of kind %d", ErrNewer, x.kind)
	}
	if (x.kind == kindDone) != (x.manifest != nil) || last != ledgerBy {
		return nil, errLedger
	}
	return x, nil
}

// fields yields the fields of a body; one that is cut off has tag 0.
func fields(b []byte) func(func(uint8, []byte) bool) {
	return func(yield func(uint8, []byte) bool) {
		for len(b) > 0 {
			n, w := binary.Uvarint(b[1:])
			if w <= 0 || n > uint64(len(b)-1-w) || w > 1 && b[w] == 0 {
				yield(0, nil)
				return
			}
			if !yield(b[0], b[1+w:1+w+int(n)]) {
				return
			}
			b = b[1+w+int(n):]
		}
	}
}

// ledgerObject reads an object of the ledger.
func (r *Repo) ledgerObject(ctx context.Context, n uint64) (*ledgerObject, [32]byte, error) {
	key := ledgerKey(n)
	b, err := r.b.Get(ctx, key, 0, -1)
	if err != nil {
		if errors.Is(err, remote.ErrNoKey) {
			err = damaged(key, errMissing)
		}
		return nil, [32]byte{}, err
	}
	body, prev, err := r.openSealed(ctx, ledgerMagic, key, b)
	var x *ledgerObject
	if err == nil {
		x, err = parseLedgerObject(body)
	}
	if errors.Is(err, ErrNewer) {
		return nil, prev, fmt.Errorf("%s: %w", key, err)
	}
	if err != nil {
		return nil, prev, damaged(key, err)
	}
	x.prev = prev
	r.hold(key, b)
	return x, hashOf(b), nil
}

// putLedger puts the next object of the ledger, and returns what that is then. The error matches
// [ErrRival] if somebody else was faster.
func (r *Repo) putLedger(ctx context.Context, l *Ledger, x *ledgerObject) (*Ledger, error) {
	now := *l
	now.Newest++
	now.Open = nil
	if x.kind == kindAnnounce {
		now.Open = &Announcement{now.Newest, x.going, x.forget, x.by}
	}
	b := seal(r.ring(), ledgerMagic, ledgerKey(now.Newest), l.hash, x.body())
	now.hash = hashOf(b)
	return &now, r.create(ctx, ledgerKey(now.Newest), b)
}

// Announce says, behind a ledger, that somebody prunes: from then on what writers put counts only if they
// knew of it, or [Repo.Done] says so. It takes over from whoever has announced before and has not
// ended. It returns the ledger as it is then. The error matches [ErrRival] if somebody else has said
// something meanwhile.
func (r *Repo) Announce(
	ctx context.Context, l *Ledger, going []Line, forget [][32]byte, by [16]byte,
) (*Ledger, error) {
	return r.putLedger(ctx, l, &ledgerObject{kind: kindAnnounce, going: going, forget: forget, by: by})
}

// Done ends the prune that l, from [Repo.Announce], has announced: what counts of older generations is
// what is kept. The error matches [ErrRival] if somebody else has taken over: then nothing may be deleted.
func (r *Repo) Done(ctx context.Context, l *Ledger, kept map[Line]*Kept, forgotten map[[32]byte]bool) error {
	m := &Ledger{Kept: kept, Forgotten: forgotten}
	ref, err := r.PutPack(ctx, l.Open.Number, Line{}, m.parts())
	if err != nil {
		return err
	}
	if _, err := r.putLedger(ctx, l, &ledgerObject{kind: kindDone, manifest: &ref, by: l.Open.By}); err != nil {
		return err
	}
	_, _, err = r.Refresh(ctx)
	return err
}

// Withdraw ends a prune that was announced, before anything was taken away: whoever announced it finds out
// when it wants to end it, and takes nothing away.
func (r *Repo) Withdraw(ctx context.Context, l *Ledger, by [16]byte) error {
	_, err := r.putLedger(ctx, l, &ledgerObject{kind: kindWithdraw, by: by})
	if errors.Is(err, ErrRival) { // it has ended by itself
		err = nil
	}
	if err == nil {
		_, _, err = r.Refresh(ctx)
	}
	return err
}

// IsSure reports whether an entry counts whatever a prune does that is under way: only on such a one may
// another line count that is opened now.
func (l *Ledger) IsSure(line Line, n, generation uint64) bool {
	switch k := l.Kept[line]; {
	case l.IsGoing(line) || !l.Counts(line, n, generation):
		return false
	case k != nil && n <= k.Last:
		return true
	}
	return l.Open == nil || generation >= l.Open.Number
}

// Manifest returns the pack that has what the last prune has kept; nil if there was none.
func (l *Ledger) Manifest() *PackRef {
	if l.Prune == 0 {
		return nil
	}
	return &l.manifest
}

// Tags of a manifest.
const (
	keptLine      = 1
	keptOn        = 2
	keptPack      = 3
	keptVoid      = 4
	keptFold      = 5
	keptForgotten = 6

	manifestKind = 0x80 // of the parts of its pack
	manifestPart = 1 << 20
)

// parts returns what a manifest says, as parts of a pack.
func (l *Ledger) parts() *Parts {
	parts := new(Parts)
	var b []byte
	end := func() {
		parts.Add(&Part{Bytes: b, Kind: manifestKind, IDs: []ID{{manifestKind, [32]byte{}}}})
		b = b[:0]
	}
	order := func(a, b Line) int { return slices.Compare(a[:], b[:]) }
	for _, line := range slices.SortedFunc(maps.Keys(l.Kept), order) {
		b = l.Kept[line].append(b)
		if len(b) >= manifestPart {
			end()
		}
	}
	ids := slices.SortedFunc(maps.Keys(l.Forgotten), func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		b = field(b, keptForgotten, id[:])
	}
	end()
	return parts
}

func dirBytes(dir string) []byte {
	b, err := hex.DecodeString(dir[len("log/") : len(dir)-1])
	if err != nil || len(b) != 16 {
		panic("lines: internal error: no directory of lines: " + dir)
	}
	return b
}

func (k *Kept) append(b []byte) []byte {
	named := []byte{0}
	if k.Named {
		named[0] = 1
	}
	b = field(b, keptLine, k.Line[:], dirBytes(k.Dir), number(k.Last), k.Hash[:], number(uint64(k.Newest)), named)
	for _, o := range k.On {
		b = field(b, keptOn, o.Line[:], dirBytes(o.Dir), number(o.Entry))
	}
	for _, p := range k.Packs {
		b = field(b, keptPack, p.bytes())
	}
	for _, n := range k.Void {
		b = field(b, keptVoid, number(n))
	}
	for _, f := range k.Folds {
		b = field(b, keptFold, number(f.From), number(f.To), f.Pack.bytes())
	}
	return b
}

// readManifest reads what the prune says that ended last.
func (r *Repo) readManifest(ctx context.Context, l *Ledger) error {
	l.Kept, l.Forgotten = make(map[Line]*Kept), make(map[[32]byte]bool)
	raw, err := r.b.Get(ctx, l.manifest.Key(), 0, -1)
	if err == nil {
		r.hold(l.manifest.Key(), raw) // before it is opened in place
		err = r.readPack(ctx, &l.manifest, raw, l.parse)
	}
	if errors.Is(err, remote.ErrNoKey) && l.Newest > 0 {
		return &goneError{l.manifest.Key(), err}
	}
	return err
}

// A goneError says which object is missing.
type goneError struct {
	key string
	error
}

func (e *goneError) Unwrap() error { return e.error }

// HoldLedger reads those objects of the ledger, too, that do not matter any more, but for those that somebody has a
// copy of: see [Repo.Held].
func (r *Repo) HoldLedger(ctx context.Context, has func(key string) bool) error {
	for n := r.Ledger().Newest; n > 0; n-- {
		if key := ledgerKey(n); has(key) || r.Held()[key] != nil {
			continue
		}
		if _, _, err := r.ledgerObject(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

var errManifest = errors.New("it is not as what a prune keeps has to be")

// parse reads a part of a manifest.
func (l *Ledger) parse(b []byte) error {
	var k *Kept
	for tag, v := range fields(b) {
		want := map[uint8]int{keptLine: 81, keptOn: 40, keptPack: packRefSize, keptVoid: 8, keptFold: 16 + packRefSize,
			keptForgotten: 32}
		n, ok := want[tag]
		switch {
		case tag == 0:
			return errManifest
		case !ok:
			return fmt.Errorf("%w: field %d of what a prune keeps", ErrNewer, tag)
		case len(v) != n || k == nil && tag != keptLine && tag != keptForgotten:
			return errManifest
		}
		dir := func(b []byte) string { return "log/" + hex.EncodeToString(b) + "/" }
		switch tag {
		case keptLine:
			k = &Kept{Line: Line(v[:16]), Dir: dir(v[16:32]), Last: le.Uint64(v[32:]), Hash: [32]byte(v[40:72]),
				Newest: int64(le.Uint64(v[72:])), Named: v[80] == 1}
			l.Kept[k.Line] = k
		case keptOn:
			k.On = append(k.On, On{Line: Line(v[:16]), Dir: dir(v[16:32]), Entry: le.Uint64(v[32:])})
		case keptPack:
			p, ok := parsePackRef(v)
			if !ok {
				return errManifest
			}
			k.Packs = append(k.Packs, *p)
		case keptVoid:
			k.Void = append(k.Void, le.Uint64(v))
		case keptFold:
			p, ok := parsePackRef(v[16:])
			if !ok {
				return errManifest
			}
			f := Fold{le.Uint64(v), le.Uint64(v[8:]), *p}
			if f.From != k.Folded() || f.To < f.From || f.To > k.Last || f.To-f.From > p.Size/minFolded {
				return errManifest
			}
			k.Folds = append(k.Folds, f)
		case keptForgotten:
			l.Forgotten[[32]byte(v)] = true
		}
	}
	return nil
}
