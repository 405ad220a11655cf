package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// Help is written as it is read: plain text, lines of up to 80 columns.

const rootHelp = `snapctl takes snapshots of a directory: all of it, whether git tracks it or
not, without touching git, and quickly. It shows what changed between any two
of them, and gives back what they hold.

Snapshots are kept outside of the directory, in ~/.boo/file-store. All working
trees of a git repository share one store.

  snapctl snapshot           record the state of the directory
  snapctl status             what changed since
  snapctl show -p @          what the newest turn changed, and only that
  snapctl restore @~1        take back what it did
  snapctl undo               and again

'snapctl help revs' says how snapshots are named, 'snapctl help exit' what the
exit codes mean.`

const snapshotHelp = `Snapshot records what is in the directory: tracked, untracked and generated
files, links, empty directories, nested repositories, permission bits. If
nothing changed since the newest snapshot of the session, nothing is recorded,
unless there is a --label.

Left out, and listed by 'snapctl coverage', are: what .gitignore and the like
ignore (unless git tracks it) and what .booignore does; the insides of .git,
.hg, .svn and .jj; sockets, fifos and devices; files above --max-file-size;
what cannot be read, and what changes while it is read. Outside of git
node_modules and .pi are ignored.

A .booignore file has the syntax of a .gitignore and comes after it: it may
ignore more, or bring back what that ignores ("!.env").

A home directory, a whole disk and the like are refused (exit code 5), and so
is a capture that would go over a limit; the largest directories are then
named. What was read until then is kept for the next try. With --partial a
snapshot is made of what fits.

The exit code is 3 if something was left out that should not have been: what
was unreadable, unstable, or over a limit with --partial. Files above
--max-file-size are named too, but that is as was asked for.

If no session is named, the newest of the directory goes on; snapctl asks, or
refuses, if several were active in the last 24 hours. The first is "default". What
another session's turns have done since is theirs; what may be of both is
contested.`

const snapshotExamples = `  snapctl snapshot
  snapctl snapshot --label "before the refactoring"
  snapctl snapshot --max-file-size 2GiB
  snapctl snapshot --session 7f3a --json`

const patchHelp = `Patch edits text files by what they hold, and not by line numbers: an old text is
found and a new one put in its place. What is not there exactly as given may be
found by what it is like; what is there several times, or only roughly so, is
refused, with the places that are nearest. All pieces of a patch are put, or
none is.

What a file held is in the store before it is written, so each edit can be taken
back by its ID.`

const patchExamples = `  snapctl patch apply --path main.go --old 'x := 1' --new 'x := 2'
  snapctl patch apply --fuzzy changes.diff
  snapctl patch undo 61d8bb24c9868fed
  snapctl patch log`

const patchLocateHelp = `Locate says where a text is in FILE (- is stdin), and how sure that is. The first
of these stages at which something is found decides:

  exact         the same bytes, or the same but for CRLF and LF
  whitespace    the same lines but for blanks at their ends, then at both ends
  unicode       so, with quotes, dashes and spaces in their plain form
  block_anchor  first and last line the same, those between similar (over 0.6)
  levenshtein   similar as a whole (0.66 or more)

If several places are as good it is refused (exit code 1), and no later stage is
tried. With --jsonl requests come on stdin and answers go to stdout, a JSON object
a line; see the manual.`

const patchApplyHelp = `Apply edits the files that a patch names. PATCH is a file, or stdin: blocks of
SEARCH and REPLACE, *** Begin Patch (V4A), a unified diff, or a JSON list of edits;
with --old and --new it is a text in the file that --path names.

Texts must be there exactly, and once; --fuzzy also takes what is similar, from
0.92 on, and --expect N so many. With --fuzzy the new text gets the file's
indentation and is merged with what is there: lines that old and new have in
common stay as the file has them. --reindent off and --no-merge say no.

A file that is binary, read-only, or leads out of the directory is refused. The
edit belongs to the turn of the session that is open, if there is one.`

const patchApplyExamples = `  snapctl patch apply changes.diff
  snapctl patch apply -n < answer.txt
  snapctl patch apply --path main.go --old-file old.txt --new-file new.txt --fuzzy`

const patchUndoHelp = `Undo takes back an edit, or an undo of one. If a file is not what the edit left,
it is refused: --reverse takes back only what the edit changed, wherever that is
now; --force makes the file what it was before the edit.`

const patchLogHelp = `Log lists the edits of the directory, newest first: ID, time, session, and each
file with how loosely its text was found. With --json the hashes of the files before and
after are there, too; contents are not.`

const restoreHelp = `Restore brings files back to what they were at REV: by default those that turns
of the session changed since, and only as far as they did. What the user changed
in between, or another session, stays, and so does a file that the user has
deleted. @~N takes back the N newest turns and nothing else. Any other REV is a
moment: what was taken back since and was in then is put back, and said.

With PATHs these files, all in these directories, and what these globs stand for
(** is any number of directories) are as at REV afterwards: one that is not there
is made; of those that you have edited since it asks on a terminal, with how many
lines would go, and elsewhere they are skipped. With --exact they are restored
whoever changed them, and without PATHs all that differs is.

A file that is not as the session left it is dirty: somebody has changed it
since. It is skipped, and named, unless --on-dirty says overwrite; with abort
nothing is done at all if one file is dirty. --exact overwrites unless told not
to. A file that may have been another session's doing is dirty unless it is
named. Only what turns have made since is deleted.

What is overwritten or deleted is in the store before: 'snapctl undo' brings it
back. A restore that was cut off, by a crash, is brought to its end by the next
snapshot, or with --continue; --abort changes back what it did.

On a terminal it asks before it deletes, unless there is -y. It refuses while a
turn is open, and if another commit is checked out than at REV, without -y. The
exit code is 3 if something was not done, and each line says why.`

const restoreExamples = `  snapctl restore @~1
  snapctl restore -n start
  snapctl restore turn:3 src/main.go 'docs/**/*.md'
  snapctl restore start --exact
  snapctl restore @~2 --on-dirty overwrite`

const undoHelp = `Undo takes back the newest restore in the directory that was not taken back yet:
the files that it changed are as they were before it. If several sessions work
there it says of which one that restore was; with --session it is the newest of
one session. As many restores can be taken back as there were, also in a later
session of work.

Files that were changed since are skipped, as with restore. The restore stays
next on the list for those, and 'snapctl undo' tries them again; with --past the
one before it is taken back, and what stays is said.`

const undoExamples = `  snapctl undo
  snapctl undo -n
  snapctl undo --past`

const redoHelp = `Redo takes back the newest undo in the directory; with --session, and with --past,
as 'snapctl undo' does. A new restore of a session ends its list of what can be
done again; every state stays within reach of 'snapctl restore'.`

const redoExamples = `  snapctl redo`

const navigateHelp = `Navigate moves the conversation to an entry, and the files to what they were
there; with --skip-files only the former. The session goes on from there: turns
that were left are on another branch, and 'snapctl restore ENTRY' reaches them.`

const navigateExamples = `  snapctl navigate a1b2c3d4
  snapctl navigate a1b2c3d4 --skip-files`

const statusHelp = `Status looks at the directory and prints a line for each path that is not as in
the newest snapshot of the session. Nothing is stored.

  A  added            a  captured: it was there, but a rule or limit kept it out
  M  modified         d  left out now by a rule or limit, but still there
  T  file became a link, or a link a file
  D  deleted

Paths are relative to the root of the directory. A directory is listed only if
it comes or goes empty, or its permission bits changed. Control characters,
what is not UTF-8, and what turns the direction of text around are escaped as
git does; with -z nothing is. A count goes to stderr.

PATH is a file or a directory: relative to the current directory if that is in
the project, else to its root.`

const statusExamples = `  snapctl status
  snapctl status -- src docs/cli.md
  snapctl status --exit-code -q || snapctl snapshot`

const diffHelp = `Diff compares two snapshots, or a snapshot with what is on the disk now. Without
REV it compares @ with the disk, with one REV that with the disk. "disk" stands
for the disk on either side.

A patch is what 'git apply' and 'patch -p1' take. It names binary files, and
text of more than 10 MiB, without their content; it cannot hold directories.
What came or went only because a rule or limit changed, or by git's sparse
checkout (a and d in --name-status), is in no patch and no count.

With --turn it shows what one turn did, and nothing that the user or another
session did meanwhile: 'snapctl diff @~1 @' has both. Where somebody else has
changed a file between two tools of the turn, the turn's own pieces follow one
another.

With -M a file that was moved is one change, and not a file deleted and another
added: it has the same content, or half of it. In colour, what changed within a
line is underlined.

On a terminal control characters of files are shown and not obeyed, ESC as ^[ and
what is none of ASCII's as \x9b; --raw prints all bytes, as into a pipe.

Letters are those of 'snapctl status', numbers of --numstat those of git: lines
added, lines deleted, or "-" for binary files. Files on the disk are read as
they are shown; one that changes meanwhile is an error.

PATH is a file or a directory: relative to the current directory if that is in
the project, else to its root.`

const diffExamples = `  snapctl diff
  snapctl diff --turn @
  snapctl diff --turn turn:4 -M -- src
  snapctl diff start disk --stat
  snapctl diff a1b2c3d4 -- src | git apply -R
  snapctl diff @~3 @ --name-status -z -- docs`

const logHelp = `Log lists what happened in the session, newest first: turns that changed
something, restores, what was found changed that no turn did ("offline": the
user's), and the start. A line has the turn, the REV that names it (an entry id,
or look:N where there is none), the time and how many paths were added, modified
and deleted. 'snapctl show' tells which; --name-status lists them here, --stat
counts the lines that were changed, -p shows them.

With PATH only turns that changed it are listed. PATH is relative to the current
directory if that is in the project, else to its root.

With --session-file the turns are those on the path to the leaf of pi's log.

With --json each line is an object; what is not known is null.`

const logExamples = `  snapctl log --limit 10
  snapctl log --session 7f3a --name-status
  snapctl log -p -n 3 -- src
  snapctl log -- src/main.go
  snapctl log --session-file ~/.pi/agent/sessions/x.jsonl
  snapctl log --all --json | jq -r .entryId`

const sessionsHelp = `Sessions lists the conversations that have recorded something in this
directory, the one that did so last first: its name, when it began, when it
recorded something last, and how many of its turns changed something.

With --export it writes the log of one of them instead, as pi would have it, into
the store, and prints its path. 'snapctl repair' makes turns again from it, if the
journal loses them; export again for what comes later. Where a runtime keeps a log
of the session, that one is used.`

const sessionsExamples = `  snapctl sessions
  snapctl sessions --all --json | jq -r .session
  snapctl sessions --export --session default`

const whereisHelp = `Whereis says what changed a file last: the turn, its entry, when it was, its
session, and whose change it was. What was found between turns is offline, the user's.`

const showHelp = `Show prints what is known of a snapshot, and the paths that its turn changed; with
-p as a patch, with --stat how many lines of each. What the user changed between
the turns, or between the tools of one, is not in it: where that is listed by
'snapctl log' as "offline", it has a REV of its own, look:N, to be shown.

What may also have been another session's doing is marked as contested. The
start of a session has nothing to be compared with: 'snapctl ls -r' lists it.

With PATH only what is at or below it is shown.`

const showExamples = `  snapctl show @
  snapctl show -p turn:3
  snapctl show --stat look:12
  snapctl show a1b2c3d4 --json`

const lsHelp = `Ls lists a directory of a snapshot, its root if there is no PATH, or a single
file: permission bits, hash, size and path, in order of name. Paths are relative
to the root.`

const lsExamples = `  snapctl ls @
  snapctl ls @~2 src
  snapctl ls -r --name-only start`

const catHelp = `Cat writes the content of a file in a snapshot, byte for byte. Of a symbolic
link it writes the target. On a terminal control characters are shown and not
obeyed, ESC as ^[, unless there is --raw.`

const catExamples = `  snapctl cat @~1 main.go > main.go.before
  snapctl cat start logo.png | sha256sum`

const exportHelp = `Export writes all that a snapshot holds into DIR, which must be empty or not
exist: names, content, permission bits and links as they were. Times are not
recorded, so all files are new.

What the store has lost is listed on stderr, with exit code 4, and is not there,
not even in part; all else is.`

const exportExamples = `  snapctl export @ /tmp/before
  snapctl export start ../original`

const coverageHelp = `Coverage lists what was in the directory when the snapshot was taken and is not
in it, with the reason. An ignored directory is one line, not its content.

  ignored     a rule in .gitignore, .booignore and the like
  too-large   above --max-file-size
  unreadable  no permission, or an error of the disk
  unstable    changed each time it was read
  special     socket, fifo or device
  vcs         the insides of a version control system
  store       the store itself
  budget      over a limit, with --partial
  sparse      git has taken it out: see git sparse-checkout

REV is @ by default. Sizes are those of files, where they were measured.`

const coverageExamples = `  snapctl coverage
  snapctl coverage @~1 --json | jq -r 'select(.reason == "too-large") | .path'`

const checkHelp = `Check reads the structure of the store: the journal, the headers of all objects,
indexes, and that every snapshot finds all that it needs. With --read-data it
also reads all content and verifies it, with --sample 5% the next 5% of it, each
time the part behind the one before. --resume goes on to the end of the content
from where a check was interrupted, or a sample ended. Nothing is written but when
that was, and how far it got. Snapshots that were recorded and are gone from the
journal are damage, too: prune refuses then.

Commands that record something say once a day if no check has come to its end for
30 days, or if something has failed since. An engine reads a part of the content
each day while nobody uses it.

Damage is listed, one place or path a line, and the exit code is 4. What several
snapshots share is listed once, with the newest of them.`

const checkExamples = `  snapctl check
  snapctl check --read-data
  snapctl check --sample 5%
  snapctl check --resume`

const repairHelp = `Repair reads the whole store and mends what can be mended. A pack with damaged
objects goes to quarantine, and what is intact in it into another one. What is
lost is looked for in packs, quarantine and trash, and in the files of the working
tree, which are only read; it is put back where the content is the same to the
byte. FORMAT and indexes are made again, and records of the journal put back of
which a byte was changed, or turns that a session's log names: the store's own log,
the runtime's, or that of --session-file. Nothing is deleted.

What stays hurt is listed, and the exit code is 4; all the rest restores. With -n
nothing is done, and the exit code is 1 if there is something to do.

What nobody can bring back is damage at each check, and nothing is pruned by itself.
With --accept-loss it is written down as lost, when all has been tried: then check
lists it as accepted, prune goes on, and only what is lost after that is damage. It
asks on a terminal; elsewhere it wants -y.`

const repairExamples = `  snapctl repair -n
  snapctl repair && snapctl check --read-data
  snapctl repair --accept-loss`

const pruneHelp = `Prune drops old snapshots, and frees the bytes that none of the others needs.
Without --keep-… none is dropped. With several, what one of them keeps stays; so
does what has a name, the newest snapshot of each session and each directory, and
what open turns and restores need. Look first with -n: prune does what that says.

With --max-size the oldest go until the store is small enough, whatever else
keeps them, those with a name last. --session has prune look at one session only;
--drop-session drops all of it, and asks before, or wants -y.

Of a snapshot that was dropped log still tells what it was. Others may go on
working meanwhile; prune waits for those who write or restore. With -n the exit
code is 1 if there is something to do.

It works on a full disk, too: the store keeps 256 KiB aside for that. What is
wholly dead goes first, and makes room to write the rest anew.`

const pruneExamples = `  snapctl prune -n --keep-last 50 --keep-within 30d
  snapctl prune --keep-last 50 --keep-within 30d
  snapctl prune --max-size 2GB
  snapctl prune --session 0f3a --drop-session -y`

const adoptHelp = `Adopt has the history of a directory that was moved go on where it is now: all
sessions, labels and lists of undo are there, and the next turn is the one after.
The store goes along, and the old path has none any more.

A directory that was renamed, and a working tree after 'git worktree move', are
recognised. A copy is another directory: name the old path, OLDPATH, which must be
gone, or the store as 'snapctl stores' lists it. It asks then, or wants -y where
nobody can answer.

A directory that has snapshots of its own goes on with those; both histories stay,
and nothing is merged. With --fresh a directory that was recognised begins a new
one. A process that has the store open is in the way; the engine is ended.`

const adoptExamples = `  snapctl adopt
  snapctl adopt ~/work/old-name
  snapctl adopt -y /mnt/old/project
  snapctl adopt --fresh`

const storesHelp = `Stores lists the stores of all projects, the one that was used last first: its
name, the bytes it takes, when something was recorded last, how many sessions it
has, and the project with its state:

  there      the directory is there
  gone       it was deleted, or moved
  elsewhere  its path is that of a container, or of another machine
  unknown    it may be on a disk that is not mounted

Other working trees in the store are listed below. 'snapctl --root PROJECT log'
reads the store of one that is gone, and 'snapctl adopt' has it go on elsewhere.

Once a day, of stores whose directories have been gone for 30 days, everything
goes that has no label; docs/cli.md, prune, has the numbers.`

const storesExamples = `  snapctl stores
  snapctl stores --json | jq -r 'select(.presence == "gone") | .project'
  snapctl stores rm ~/work/throw-away`

const storesRmHelp = `Rm removes the store of a project with all that is in it, for good: all sessions of
all working trees, labels too. No file of the project is touched. PROJECT is the
path of the project, whether it is there or not; STORE the name of its store, or
the first 4 or more characters of that.

It asks on a terminal, and wants -y elsewhere. A store that a process has open is
refused.`

const storesRmExamples = `  snapctl stores rm ~/work/throw-away
  snapctl stores rm -y 3f6c0b12`

const forgetHelp = `Forget removes a content from all snapshots of all sessions and working trees
that share the store, so that no file of the store holds it, compressed or not:
a key or a password that was captured. The rest of every snapshot stays.

PATH is a file or a directory with all below it, whatever is there now: all that
any snapshot has there goes. A BLOB is a content by its hash, 64 hex digits, as
b3sum prints it and ls --json shows it. The same content at other paths goes,
too, and is listed. What no snapshot needs goes as well, in all files of the
store: look first with -n.

It cannot be undone: on a terminal it lists what goes, and asks; elsewhere it wants
-y. What is not found: the secret as a part of other files,
names of files, labels of snapshots, backups, free blocks of the disk, and the
logs that the runtime keeps of conversations. A file that is still in the
directory is captured again: delete it, or put it into .booignore.

Others may go on working; the engine makes way by itself. If another program that
embeds snapctl appends to a file of the store that has to go, it must end first:
forget says so, and changes nothing. With -n the exit code is 1 if there is something to do.`

const forgetExamples = `  snapctl forget -n .env
  snapctl forget -y .env config/secrets
  snapctl forget 5b0a9c…   # all 64 digits`

const rpcHelp = `Rpc answers requests on stdin, one JSON object a line, on stdout, for runtimes in
other languages. It watches the directories of the sessions that it is told of,
so that the end of a turn costs what has changed. docs/rpc.md has the commands;
{"id":1,"type":"ping"} is one. It ends with its input, when all is answered.`

const serveHelp = `Serve does what rpc does for all who connect to a socket in the store, and stays.
snapshot, status and diff are quick while it runs: they go to it by themselves,
and print the same without it, also where it does not answer. Only this user can
connect.

With --http it also takes chats back for a runtime with a database: the files, the
transcript, and what the agents remember. It prints its address, and stays until
it is ended. Each request carries the token; the manual, docs/http.md, has them.`

const serveExamples = `  snapctl serve --detach
  snapctl serve --stop
  snapctl serve --http 127.0.0.1:8200 --db postgres://127.0.0.1/runtime
  snapctl serve --http 127.0.0.1:0 --json`

const hookHelp = `Hook records what an agent does to the files, as its hooks tell. It is written
into the agent's settings by 'snapctl setup', and not meant to be typed.`

const hookClaudeHelp = `Claude reads an event of a Claude Code hook on stdin and records it: a turn from
prompt to stop, and within it what its tools changed, be it by the shell. The
rest is the user's. 'snapctl setup claude' has Claude Code call it.

It prints nothing and exits with 0 whatever happens, so that it never stops the
agent. Why something was not recorded is in hook.log beside the stores, in
~/.boo/file-store, and on stderr if SNAPCTL_DEBUG is set.`

const setupHelp = `Setup writes hooks into the settings of Claude Code, so that each turn is
recorded, and takes them out again with --remove. It shows the change and asks.
All else in the file stays as it is.

The file is .claude/settings.local.json of the project, which is yours alone;
with --project .claude/settings.json, which is everybody's who works on it, and
with --user ~/.claude/settings.json or that in $CLAUDE_CONFIG_DIR, for all
projects. Claude Code reads it when it starts.`

const setupExamples = `  snapctl setup claude
  snapctl setup claude --user --yes
  snapctl setup claude --remove`

const mcpHelp = `Mcp serves the directory to a model: it is a server of the Model Context Protocol on
stdin and stdout, for a client that starts it. Its tools take snapshots, compare
them, bring files back and edit them. It ends with its input.

Snapshots belong to the session "mcp", or to that of --session: two that serve
one directory at once should have one each. Messages go to stderr.`

const mcpExamples = `  snapctl mcp --root ~/project
  claude mcp add snapctl -- snapctl mcp`

const statsHelp = `Stats prints where the store is and how much it holds. It reads the headers of
all objects to count them.`

const statsExamples = `  snapctl stats
  snapctl stats --json`

const duHelp = `Du says what takes the bytes of the store, for whoever wants to know what to
delete: for each session of all working trees what would go if only its
snapshots were gone, of how much that they need; what several sessions share;
what is in no snapshot; and what is no content.

With --turns it lists what each turn added that nothing before it had, newest
first; with --session only that session's. With --paths it lists what the
versions of each file take, the most first; --depth N sums directories up. Other
paths and other sessions may hold the same content: what is shared is in each
line.

Sizes are what is on the disk, compressed. Damaged and missing objects are
listed, and the exit code is 4.`

const duExamples = `  snapctl du
  snapctl du --turns --session 7f3a
  snapctl du --paths -n 20
  snapctl du --paths --depth 1`

const revsHelp = `A REV names a moment of the session, or a tree:

  @             the end of the newest turn that is not taken back
  @~N           the end of the Nth turn before it; @~ is @~1. 'restore @~N' takes
                the N newest turns back, and nothing else
  turn:N        the end of turn N, also of one that was taken back: one for each
                prompt, counted from 0; no number is given twice
  start         the start of the session
  a1b2c3d4      an entry, as 'snapctl log' lists it, or the first 4 or more
                characters of it; with --session-file any entry of pi's log: a
                message of the agent stands for what its turn left, one of the
                user for the begin of its turn
  look:12       the record with this number: what 'snapctl log' lists that has no
                entry, such as what the user changed. No entry and no hash has a
                colon in it
  994d5109a3aa  the hash of a snapshot's tree: all 64 digits, or at least the
                first 4
  disk          what is on the disk now; in diff only

What fits several things is refused, and they are listed.

The session is that of --session (its name, or the start of it if no other begins
so), BOO_SESSION or --session-file, else the newest of this directory. A restore
asks if several have worked here in the last 24 hours. Without these, entries and trees are looked for in all
sessions, and in all working trees that share the store.

All 64 digits may also name the tree of a directory inside a snapshot, as
'snapctl ls --json' shows it, where a tree will do: in diff, ls, cat and export.`

const exitHelp = `  0    done
  1    refused: no such snapshot or path, an ambiguous name, no snapshot yet, a
       directory that should be empty; or differences found, with --exit-code
  2    the command line makes no sense
  3    done in part: something was left out or skipped, and is listed
  4    the store is damaged
  5    over a limit, or too broad a root
  6    something else does not work: disk, permissions, locks, a store that a
       newer version made
  130  interrupted

Messages go to stderr; the first line of an error begins with "snapctl:". Unless
the code is 0, 1 with --exit-code, or 3, nothing was recorded.`

// helpCommand is cobra's, but for what it does not find.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Explain a command or a topic",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(cmd.Root(), "no help on %q", strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "revs", Short: "How snapshots are named", Long: revsHelp},
		{Use: "exit", Short: "What the exit codes mean", Long: exitHelp},
	}
}
