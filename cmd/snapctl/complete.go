package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
)

// A shell that completes a command line runs it behind __complete. What is typed is read then as
// ever, and the store is only read. Nothing is asked or said, and an error completes nothing.

const (
	maxCompleted = 50   // revisions, sessions and the like
	maxPaths     = 1000 // of one directory
	maxLookedAt  = 4000 // moments in which a label is looked for: 10,000 take 80 ms

	// completeTime is how long a shell is kept waiting.
	completeTime = time.Second

	noFiles = cobra.ShellCompDirectiveNoFileComp
	inOrder = noFiles | cobra.ShellCompDirectiveKeepOrder // newest first
)

// A completing is one argument, or the value of a flag, that is being completed.
type completing struct {
	*place
	cmd   *cobra.Command
	args  []string // arguments before it
	typed string   // so far

	list  []cobra.Completion
	order cobra.ShellCompDirective
}

// completeWith returns what has a shell complete an argument by what the store holds: fn fills
// the list. If there is no store there is nothing.
func (a *app) completeWith(fn func(*completing, context.Context) error) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		a.flags.quiet, a.stderr = true, io.Discard
		if a.prepare(cmd) != nil {
			return nil, noFiles
		}
		p, err := a.openToRead(ctx)
		if err != nil {
			return nil, noFiles
		}
		defer p.close()
		c := &completing{place: p, cmd: cmd, args: args, typed: typed, order: inOrder}
		if fn(c, ctx) != nil && len(c.list) == 0 {
			return nil, noFiles
		}
		return c.list, c.order
	}
}

// add offers a text, if it begins as what is typed does. It reports whether there is room for more.
func (c *completing) add(text, what string) bool {
	if strings.HasPrefix(text, c.typed) && strings.IndexFunc(text, unicode.IsControl) < 0 &&
		!slices.ContainsFunc(c.list, func(other string) bool {
			other, _, _ = strings.Cut(other, "\t")
			return other == text
		}) {
		c.list = append(c.list, cobra.CompletionWithDesc(text, what))
	}
	return len(c.list) < maxCompleted
}

// plainLine returns the first line of a text, or as much of it as there is room for, without
// characters that a terminal or a shell would obey.
func plainLine(text string) string {
	return strings.TrimSpace(words.Plain(words.FirstLine(text, maxTitleShown)))
}

// describeMoment says by what people know a moment: what the turn was for, else its label, else how
// many paths it changed.
func describeMoment(mo *manager.Moment) string {
	label := ""
	if mo.Snapshot != nil {
		label = mo.Snapshot.Label
	}
	text := plainLine(cmp.Or(mo.Title, label))
	return cmp.Or(text, nonZero([]amount{{mo.Added, "added"}, {mo.Modified, "modified"}, {mo.Deleted, "deleted"}}))
}

// revs completes a revision: turns, newest first, and behind what is typed of one any other name.
func (c *completing) revs(ctx context.Context) error {
	if err := c.chooseSession(ctx); err != nil {
		return err
	}
	if strings.HasPrefix(c.typed, "@") {
		return c.revsBack(ctx)
	}
	if c.typed != "" {
		c.add("start", "the start of the session")
		if err := c.remoteRevs(ctx); err != nil {
			return err
		}
	}
	isTurn := strings.HasPrefix("turn:", c.typed) || strings.HasPrefix(c.typed, "turn:")
	for mo, err := range c.m.Timeline(ctx) {
		if err != nil {
			return err
		}
		text := describeMoment(mo)
		if mo.TakenBack != nil {
			text += " (taken back)"
		}
		more, label := true, ""
		if mo.Snapshot != nil {
			label = mo.Snapshot.Label
		}
		if mo.TurnIndex >= 0 && isTurn {
			more = c.add(fmt.Sprintf("turn:%d", mo.TurnIndex), text)
		} else if label != "" || c.typed != "" {
			if name := history.NameOf(mo.EntryID, mo.Snapshot); name != "" {
				more = c.add(name, text)
			}
		}
		if label != "" && c.typed != "" && more {
			more = c.add(label, turnName(mo.Kind, mo.TurnIndex))
		}
		if !more {
			break
		}
	}
	return nil
}

// remoteRevs completes the newest turn of others that go on with a session.
func (c *completing) remoteRevs(ctx context.Context) error {
	list, err := c.m.Sessions(ctx, true)
	for _, s := range list {
		if remote, path, ok := strings.Cut(s.Root, ":"); ok && exchange.ValidName(remote) {
			c.add(remote+":"+s.Session, path)
		}
	}
	return err
}

// revsBack completes @ and @~N.
func (c *completing) revsBack(ctx context.Context) error {
	for n := range 10 {
		rev := "@"
		if n > 0 {
			rev = fmt.Sprintf("@~%d", n)
		}
		point, err := c.m.Resolve(ctx, rev)
		if err != nil {
			return err
		}
		text := "the start of the session"
		if point.TurnIndex >= 0 && point.Snapshot != nil {
			text = strings.TrimSpace(fmt.Sprintf("turn %d  %s", point.TurnIndex,
				plainLine(inside.Of(c.m).Title(ctx, point.Snapshot))))
		}
		c.add(rev, text)
		if point.TurnIndex < 0 {
			break
		}
	}
	return nil
}

// turns completes a turn that is in, and that is not named yet.
func (c *completing) turns(ctx context.Context) error {
	if err := c.chooseSession(ctx); err != nil {
		return err
	}
	for mo, err := range c.m.Timeline(ctx) {
		if err != nil {
			return err
		}
		name := fmt.Sprintf("turn:%d", mo.TurnIndex)
		if mo.Kind != "step" || mo.TakenBack != nil && len(mo.But) == 0 || slices.Contains(c.args, name) {
			continue
		}
		if !c.add(name, describeMoment(mo)) {
			break
		}
	}
	return nil
}

// entries completes an entry of the conversation.
func (c *completing) entries(ctx context.Context) error {
	if len(c.args) > 0 {
		return nil
	}
	if err := c.chooseSession(ctx); err != nil {
		return err
	}
	for mo, err := range c.m.Timeline(ctx) {
		if err != nil {
			return err
		}
		if mo.EntryID != "" && !c.add(mo.EntryID, describeMoment(mo)) {
			break
		}
	}
	return nil
}

// labels completes a label that snapshots of the session have.
func (c *completing) labels(ctx context.Context) error {
	if err := c.chooseSession(ctx); err != nil {
		return err
	}
	n := 0
	for mo, err := range c.m.Timeline(ctx) {
		if err != nil {
			return err
		}
		isLabelled := mo.Snapshot != nil && mo.Snapshot.Label != ""
		if isLabelled && !c.add(mo.Snapshot.Label, clock(mo.Snapshot.Time)) {
			break
		}
		if n++; n == maxLookedAt {
			break
		}
	}
	return nil
}

// sessions completes a session of the directory, the one in use last first.
func (c *completing) sessions(ctx context.Context) error {
	list, err := c.m.Sessions(ctx, false)
	for _, s := range list {
		if !c.add(s.Session, whatSession(&s)) {
			break
		}
	}
	return err
}

// hunkIDs completes IDs, between commas, of the hunks that the command would take back.
func (c *completing) hunkIDs(ctx context.Context) error {
	if c.beforeDash() == 0 {
		return nil
	}
	if err := c.chooseSession(ctx); err != nil {
		return err
	}
	before := c.typed[:strings.LastIndex(c.typed, ",")+1]
	r := &manager.HunkRange{Turns: c.args[:c.beforeDash()]}
	if c.cmd.Name() == "restore" {
		r = &manager.HunkRange{Restore: c.args[0]}
	}
	list, err := c.m.Hunks(ctx, r)
	if err != nil {
		return err
	}
	for _, h := range list.Hunks {
		first, _, _ := strings.Cut(h.Text, "\n")
		isGiven := slices.Contains(strings.Split(before, ","), h.ID)
		if h.State != "done" && !isGiven && !c.add(before+h.ID, plainLine(h.Path+": "+first)) {
			break
		}
	}
	return nil
}

// edits completes an edit, newest first.
func (c *completing) edits(ctx context.Context) error {
	if len(c.args) > 0 {
		return nil
	}
	for e, err := range c.m.Edits(ctx) {
		if err != nil {
			return err
		}
		var paths []string
		for _, f := range e.Files {
			paths = append(paths, f.Path)
		}
		if !c.add(e.UndoID, firstPaths(paths, 3)) {
			break
		}
	}
	return nil
}

// pathsAt completes a path of a revision and, with disk, of what is on the disk.
func (c *completing) pathsAt(ctx context.Context, rev string, disk bool) error {
	dir, _ := path.Split(c.typed)
	at, err := c.treePath(c.cmd, cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	isDir := make(map[string]bool)
	if disk {
		entries, _ := os.ReadDir(filepath.Join(c.project.Root, filepath.FromSlash(at)))
		for _, e := range entries {
			if e.Name() != ".git" {
				isDir[e.Name()] = e.IsDir()
			}
		}
	}
	if err = c.namesAt(ctx, rev, at, isDir); len(isDir) > 0 {
		err = nil
	}
	c.addNames(dir, isDir)
	return err
}

// namesAt adds the names in a directory of a revision, and whether each is of a directory.
func (c *completing) namesAt(ctx context.Context, rev, dir string, isDir map[string]bool) error {
	point, err := c.resolveAsIs(ctx, rev)
	if err != nil {
		return err
	}
	top, err := trees.Lookup(ctx, c.store, point.State.Tree, dir)
	if err != nil || !top.Mode.IsDir() {
		return err
	}
	for e, err := range trees.Entries(ctx, c.store, top.ID) {
		if err != nil {
			return err
		}
		isDir[e.Name] = isDir[e.Name] || e.Mode.IsDir()
	}
	return nil
}

// pathsOfTurns completes a path that one of the turns has changed that are named before --.
func (c *completing) pathsOfTurns(ctx context.Context) error {
	dir, _ := path.Split(c.typed)
	at, err := c.treePath(c.cmd, cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	isDir := make(map[string]bool)
	for _, rev := range c.args[:c.beforeDash()] {
		t, err := c.turnDiff(ctx, rev)
		if err != nil {
			return err
		}
		for _, ch := range t.Changes {
			rest, isBelow := ch.Path, true
			if at != "" {
				rest, isBelow = strings.CutPrefix(ch.Path, at+"/")
			}
			if name, _, more := strings.Cut(rest, "/"); isBelow {
				isDir[name] = isDir[name] || more
			}
		}
	}
	c.addNames(dir, isDir)
	return nil
}

// addNames offers what is in a directory. Behind one that is a directory more is to be typed.
func (c *completing) addNames(dir string, isDir map[string]bool) {
	c.order &^= cobra.ShellCompDirectiveKeepOrder
	dirs := 0
	for _, name := range slices.Sorted(maps.Keys(isDir)) {
		text := dir + name
		if !strings.HasPrefix(text, c.typed) || strings.IndexFunc(text, unicode.IsControl) >= 0 {
			continue
		}
		if isDir[name] {
			text += "/"
			dirs++
		}
		if c.list = append(c.list, text); len(c.list) == maxPaths {
			break
		}
	}
	if dirs > 0 && dirs == len(c.list) {
		c.order |= cobra.ShellCompDirectiveNoSpace
	}
}

// beforeDash returns how many of the arguments stand before --; all, if it was not typed.
func (c *completing) beforeDash() int {
	i := slices.Index(c.app.args, "--") // cobra adds one of its own to what the command knows
	if i < 0 {
		return len(c.args)
	}
	return len(c.args) - (len(c.app.args) - 1 - (i + 1))
}

// isBehindDash reports whether -- was typed before the argument.
func (c *completing) isBehindDash() bool {
	return slices.Contains(c.app.args[:len(c.app.args)-1], "--")
}

// revThenPath completes a revision, and then a path of it.
func (c *completing) revThenPath(ctx context.Context) error {
	switch len(c.args) {
	case 0:
		return c.revs(ctx)
	case 1:
		return c.pathsAt(ctx, c.args[0], false)
	}
	return nil
}

// ofBlame completes a revision or a file, and then a file of the revision.
func (c *completing) ofBlame(ctx context.Context) error {
	if len(c.args) == 0 {
		if err := c.revs(ctx); err != nil {
			return err
		}
		return c.pathsOfNewest(ctx)
	}
	return c.revThenPath(ctx)
}

// revThenPaths completes a revision, and then paths of it and of the disk.
func (c *completing) revThenPaths(ctx context.Context) error {
	if len(c.args) == 0 {
		return c.revs(ctx)
	}
	return c.pathsAt(ctx, c.args[0], true)
}

// pathsOfNewest completes paths of the newest turn and of the disk.
func (c *completing) pathsOfNewest(ctx context.Context) error { return c.pathsAt(ctx, "@", true) }

// pathsBehindDash is pathsOfNewest for a command whose paths come behind --.
func (c *completing) pathsBehindDash(ctx context.Context) error {
	if !c.isBehindDash() {
		return nil
	}
	return c.pathsOfNewest(ctx)
}

// oneRev completes a revision, if none is named.
func (c *completing) oneRev(ctx context.Context) error {
	if len(c.args) > 0 {
		return nil
	}
	return c.revs(ctx)
}

// ofDiff completes two revisions, or the disk, and behind -- paths of the first.
func (c *completing) ofDiff(ctx context.Context) error {
	switch before := c.beforeDash(); {
	case c.isBehindDash() && before > 0:
		return c.pathsAt(ctx, c.args[0], true)
	case c.isBehindDash():
		return c.pathsOfNewest(ctx)
	case before > 1:
		return nil
	}
	if c.typed != "" {
		c.add(diskRev, "what is on the disk now")
	}
	return c.revs(ctx)
}

// ofExport completes a revision, and then a directory.
func (c *completing) ofExport(ctx context.Context) error {
	if len(c.args) > 0 {
		c.order = cobra.ShellCompDirectiveFilterDirs
	}
	return c.oneRev(ctx)
}

// ofTag completes a name, and then a revision.
func (c *completing) ofTag(ctx context.Context) error {
	if len(c.args) == 0 {
		return c.labels(ctx)
	}
	return c.revs(ctx)
}

// ofShow and ofRevert complete one REV, or turns, and behind -- the paths that they have changed.
func (c *completing) ofShow(ctx context.Context) error {
	if c.isBehindDash() {
		return c.pathsOfTurns(ctx)
	}
	return c.oneRev(ctx)
}

func (c *completing) ofRevert(ctx context.Context) error {
	if c.isBehindDash() {
		return c.pathsOfTurns(ctx)
	}
	return c.turns(ctx)
}

// argumentCompletion returns what completes the arguments of each command that takes some, by its path below
// snapctl. A command that is not here takes none, or says it itself.
func (a *app) argumentCompletion() map[string]cobra.CompletionFunc {
	files := only(cobra.ShellCompDirectiveDefault)
	byStore := map[string]func(*completing, context.Context) error{
		"restore": (*completing).revThenPaths, "revert": (*completing).ofRevert, "navigate": (*completing).entries,
		"diff": (*completing).ofDiff, "show": (*completing).ofShow, "coverage": (*completing).oneRev,
		"log": (*completing).pathsBehindDash, "status": (*completing).pathsBehindDash,
		"find": (*completing).pathsBehindDash, "tag": (*completing).ofTag, "blame": (*completing).ofBlame,
		"ls": (*completing).revThenPath, "cat": (*completing).revThenPath, "export": (*completing).ofExport,
		"whereis": (*completing).pathsOfNewest, "forget": (*completing).pathsOfNewest,
		"patch undo": (*completing).edits, "bisect good": (*completing).oneRev, "bisect bad": (*completing).oneRev,
		"bisect skip": (*completing).oneRev,
	}
	all := map[string]cobra.CompletionFunc{
		"run": files, "bisect run": files, "patch locate": files, "patch apply": files,
		"man":       only(cobra.ShellCompDirectiveFilterDirs),
		"adopt":     a.completeProjects(func(p places.Presence) bool { return p != places.There }),
		"stores rm": a.completeProjects(func(places.Presence) bool { return true }),
		"clone":     secondIsDir,
	}
	for _, name := range []string{"remove", "push", "pull", "fetch", "evict", "status", "check", "wait", "prune",
		"repair", "rotate", "key list", "key add", "key drop"} {
		byStore["remote "+name] = (*completing).oneRemote
	}
	for name, fn := range byStore {
		all[name] = a.completeWith(fn)
	}
	return all
}

// oneRemote completes the name of a remote.
func (c *completing) oneRemote(ctx context.Context) error {
	if len(c.args) > 0 {
		return nil
	}
	return c.remotes(ctx)
}

// remotes completes the name of a remote.
func (c *completing) remotes(context.Context) error {
	list, err := exchange.List(c.store.FS())
	for _, r := range list {
		c.add(r.Name, r.URL)
	}
	c.order = noFiles
	return err
}

// secondIsDir completes a URL with nothing, and what is behind it with directories.
func secondIsDir(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, noFiles
}

// only completes with nothing but what a directive has the shell do.
func only(directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, directive
	}
}

// completeHelp completes the name of a command or a topic.
func completeHelp(cmd *cobra.Command, args []string, typed string) (list []cobra.Completion,
	_ cobra.ShellCompDirective) {
	c, _, err := cmd.Root().Find(args)
	if err != nil {
		return nil, noFiles
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && strings.HasPrefix(sub.Name(), typed) {
			list = append(list, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return list, noFiles
}

// values completes one of some values, each of which may have a text behind a tab.
func values(list ...cobra.Completion) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, inOrder)
}

// listOf completes several of some values with commas between.
func listOf(all ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, value := range all {
			if strings.HasPrefix(before+value, typed) && !slices.Contains(strings.Split(before, ","), value) {
				list = append(list, before+value)
			}
		}
		return list, inOrder | cobra.ShellCompDirectiveNoSpace
	}
}

// flagCompletion has what completes the values of flags, by their names. Those that are not here
// take numbers, times and texts, or any file.
func (a *app) flagCompletion() map[string]cobra.CompletionFunc {
	dirs := only(cobra.ShellCompDirectiveFilterDirs)
	describe := cobra.CompletionWithDesc
	patchFormats := values(string(patch.SearchReplace), string(patch.V4A), string(patch.Unified),
		string(patch.EditList))
	return map[string]cobra.CompletionFunc{
		"store":   dirs,
		"root":    dirs,
		"session": a.completeWith((*completing).sessions),
		"author":  a.completeWith((*completing).sessions),
		"remote":  a.completeWith((*completing).remotes),
		"color": values(describe("auto", "on a terminal, unless NO_COLOR is set"), describe("always", "in a pipe, too"),
			"never"),
		"push": values(describe(pushAuto, "an engine does, behind turns (default)"),
			describe(pushManual, "only 'remote push'")),
		"progress": values(describe(progressAuto, "a line on a terminal (default)"),
			describe(progressJSON, "events, a JSON object a line"), progressNone),
		"turn":  a.completeWith((*completing).revs),
		"good":  a.completeWith((*completing).revs),
		"bad":   a.completeWith((*completing).revs),
		"label": a.completeWith((*completing).labels),
		"hunks": a.completeWith((*completing).hunkIDs),
		"on-dirty": values(describe(string(rollback.Merge), "keep what others changed in them (default)"),
			describe(string(rollback.Skip), "leave such files alone"),
			describe(string(rollback.Overwrite), "bring them back whole"),
			describe(string(rollback.Abort), "do nothing if there is one")),
		"on-conflict": values(describe(string(rollback.ConflictKeep), "lines that others changed, too, stay (default)"),
			describe(string(rollback.ConflictMarkers), "have both in the file, between markers"),
			describe(string(rollback.ConflictTheirs), "overwrite these lines"),
			describe(string(rollback.ConflictAbort), "do nothing if there is one")),
		"stages": listOf(string(patch.Exact), string(patch.Whitespace), string(patch.Unicode),
			string(patch.BlockAnchor), string(patch.Levenshtein)),
		"reindent": values(describe(string(patch.ReindentAuto), "fit the new text to the file's indentation"),
			string(patch.ReindentOff)),
		"format": func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if cmd.Name() == "blame" {
				return values(agentTrace, gitAI)(cmd, args, text)
			}
			return patchFormats(cmd, args, text)
		},
		"tools": listOf(mcp.Choices()...),
	}
}

// addCompletion has a shell complete what a command, and those below it, take.
func (a *app) addCompletion(root *cobra.Command) {
	arguments, ofFlags := a.argumentCompletion(), a.flagCompletion()
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if fn := arguments[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]; fn != nil {
			c.ValidArgsFunction = fn
		} else if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if fn := ofFlags[f.Name]; fn != nil && f.Value.Type() != "bool" {
					if err := c.RegisterFlagCompletionFunc(f.Name, fn); err != nil {
						panic("snapctl: internal error: " + err.Error())
					}
				}
			})
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = cobra.ArbitraryArgs
			c.RunE = completionHelp
		}
	}
}

// completionHelp is reached with arguments only if the first is no shell that there is a script for.
func completionHelp(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(c, "completion: there is none for %q: want bash, zsh, fish or powershell", args[0])
	}
	return c.Help()
}
