package main

// habits are commands that users of git, jj, restic and agents type, and snapctl has not:
// what is done in their place. A command of ours is in quotes.
var habits = map[string]string{
	// git and jj
	"add":         "nothing has to be added: 'snapctl snapshot' records all files",
	"annotate":    hintBlame,
	"backout":     "'snapctl revert REV' takes back a turn, and keeps what came after it",
	"branch":      "'snapctl sessions' lists conversations, 'snapctl navigate REV' goes to another point of one",
	"checkout":    "'snapctl restore REV' goes back, 'snapctl restore REV PATH' brings back files",
	"clean":       "'snapctl restore @ --exact' makes all files as the newest turn left them",
	"commit":      "'snapctl snapshot -m TEXT' records all files",
	"describe":    "'snapctl tag NAME REV' names a turn, 'snapctl snapshot -m TEXT' what it records",
	"difftool":    "'snapctl timeline' shows diffs side by side, 'snapctl export REV DIR' makes a directory to compare",
	"evolog":      hintLog,
	"fetch":       hintShare,
	"fsck":        "'snapctl check' verifies the store, 'snapctl repair' mends it",
	"gc":          hintPrune,
	"grep":        "'snapctl find STRING' looks in the files of turns, 'snapctl log --grep TEXT' in prompts and labels",
	"history":     hintLog,
	"init":        "nothing has to be made: 'snapctl snapshot' begins, 'snapctl setup' has agents record their turns",
	"op":          hintLog,
	"pull":        hintShare,
	"push":        hintShare,
	"reflog":      hintLog,
	"reset":       hintBack,
	"rm":          "'snapctl forget PATH' removes a content from all snapshots, 'snapctl prune' drops snapshots",
	"stash":       "'snapctl snapshot -m TEXT' records all files, 'snapctl restore @~1' goes back",
	"switch":      "'snapctl navigate REV' goes to another point of the conversation",
	"whatchanged": hintLog,

	// restic, borg and kopia
	"backup":    "'snapctl snapshot' records all files",
	"copy":      "'snapctl export REV DIR' writes the files of a snapshot elsewhere",
	"create":    "'snapctl snapshot' records all files",
	"delete":    hintPrune,
	"dump":      "'snapctl cat REV PATH' prints a file, 'snapctl export REV DIR' writes all",
	"extract":   "'snapctl export REV DIR' writes the files of a snapshot elsewhere",
	"list":      hintLog,
	"mount":     "'snapctl ls REV' and 'snapctl cat REV PATH' look into a snapshot, 'snapctl export REV DIR' writes it",
	"rebuild":   "'snapctl repair' mends the store",
	"snapshots": hintLog,
	"unlock":    "a lock ends with its process: 'snapctl serve --stop' ends an engine",
	"verify":    "'snapctl check' verifies the store",

	// agents and editors
	"back":        hintBack,
	"browse":      hintScreen,
	"changes":     "'snapctl status' lists what differs now, 'snapctl show' what the newest turn changed",
	"checkpoint":  "'snapctl snapshot' records all files",
	"checkpoints": hintLog,
	"install":     "'snapctl setup AGENT' has an agent record its turns",
	"rewind":      hintBack,
	"rollback":    hintBack,
	"save":        "'snapctl snapshot -m TEXT' records all files",
	"settings":    "'snapctl config list' lists what is configured",
	"tui":         hintScreen,
	"ui":          hintScreen,
	"web":         hintScreen,
}

const (
	hintBack   = "'snapctl restore @~1' takes back the newest turn, 'snapctl revert turn:N' an earlier one"
	hintBlame  = "'snapctl blame FILE' says who wrote each line of a file, 'snapctl whereis PATH' who changed it last"
	hintLog    = "'snapctl log' lists the turns, 'snapctl sessions' the conversations"
	hintPrune  = "'snapctl du' says what takes the room, 'snapctl prune' drops old snapshots"
	hintScreen = "'snapctl pick' shows turns in the terminal, 'snapctl timeline --open' in a browser"
	hintShare  = "'snapctl remote push' and 'snapctl remote pull' share sessions with other machines, " +
		"'snapctl clone' begins"
)
