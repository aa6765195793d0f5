package shell

import (
	"maps"
	"slices"
	"strings"
)

// takes is what a flag takes.
type takes uint8

const (
	plain    takes = iota + 1 // nothing
	value                     // a word that names no file and no program
	optional                  // a word behind = or nothing
	reads                     // a path that is read
	writes                    // a path that is written
)

// spec is one command of the table.
type spec struct {
	flags      map[string]takes
	args       func(*judge) error
	single     bool // flags are words behind one dash, as Go's are
	number     bool // a number is a flag, as in head -5
	flagsFirst bool // a flag behind an argument is unclear
	recursive  bool // reads the folder where no file is named
	anything   bool // prints its arguments and does nothing else
}

// flags reads a list of flags: name takes nothing, name= a value, name? an optional value,
// name< a path to read, name> a path to write.
func flags(list string) map[string]takes {
	out := map[string]takes{}
	for f := range strings.FieldsSeq(list) {
		name, kind := f, plain
		for suffix, k := range map[string]takes{"=": value, "?": optional, "<": reads, ">": writes} {
			if cut, ok := strings.CutSuffix(f, suffix); ok {
				name, kind = cut, k
			}
		}
		out[name] = kind
	}
	return out
}

// Names returns the commands of the table, sorted.
func Names() []string { return slices.Sorted(maps.Keys(table)) }

// Prints reports whether a command only prints, or moves to a folder. It needs no grant of
// its own.
func Prints(name string) bool {
	return slices.Contains([]string{":", "true", "false", "echo", "pwd", "cd"}, name)
}

const (
	grepFlags = "A= B= C= E F G H L P R a b c e= f< h i l m= n o q r s v w x z color? colour? include= exclude= exclude-dir= " +
		"regexp= file< count files-with-matches files-without-match ignore-case invert-match line-number no-filename only-matching quiet recursive word-regexp fixed-strings extended-regexp max-count= context="
	rgFlags = "A= B= C= F H L N S U c e= f< g= h i l m= n o q s t= T= v w x P color= type= type-not= glob= iglob= hidden no-ignore files files-with-matches " +
		"count ignore-case smart-case case-sensitive line-number no-line-number only-matching multiline fixed-strings word-regexp max-count= max-depth= context= sort= json stats heading no-heading"
	goTest   = "run= skip= count= v race short timeout= cover covermode= coverpkg= coverprofile> bench= benchtime= benchmem failfast json parallel= p= cpu= tags= list= shuffle= fullpath vet= trimpath cpuprofile> memprofile> a n"
	goBuild  = "o> v race cover tags= trimpath p= a n json"
	gitDiff  = "p U= stat? numstat shortstat summary name-only name-status cached staged no-color color? color-words? word-diff? w b ignore-all-space ignore-space-change ignore-blank-lines check no-ext-diff no-textconv merge-base minimal patience histogram unified= find-renames? M C R z diff-filter= quiet exit-code no-renames function-context W"
	gitLog   = gitDiff + " oneline n= max-count= graph all decorate? since= until= after= before= author= grep= i format= pretty? abbrev-commit abbrev? date= reverse first-parent merges no-merges follow branches? tags? patch no-patch s skip= full-index"
	goListed = "m json f= deps test e find tags="
)

// table has the commands that can be judged. A flag that may write somewhere else, run another
// program or send something away is left out.
var table = map[string]spec{
	":":     {anything: true},
	"true":  {anything: true},
	"false": {anything: true},
	"echo":  {anything: true},
	"pwd":   {flags: flags("L P"), args: noArgs},
	"cd":    {args: noArgs}, // the reader follows it

	"ls":         {flags: flags("1 A C F G H L R S T a d f g h i k l m n o p q r s t u x color? all almost-all human-readable recursive reverse sort= time="), args: folderArgs},
	"cat":        {flags: flags("A E T b e n s t u v number show-all"), args: readArgs},
	"head":       {flags: flags("n= c= q v lines= bytes="), args: readArgs, number: true},
	"tail":       {flags: flags("n= c= f F q v lines= bytes="), args: readArgs, number: true},
	"wc":         {flags: flags("c l m w L lines words bytes"), args: readArgs},
	"grep":       {flags: flags(grepFlags), args: patternArgs, number: true},
	"rg":         {flags: flags(rgFlags), args: patternArgs, recursive: true},
	"find":       {flags: map[string]takes{}, args: findArgs},
	"sed":        {flags: flags("n E"), args: sedArgs},
	"sort":       {flags: flags("b d f g h i k= n r s t= u V c reverse unique numeric-sort key= field-separator="), args: readArgs},
	"uniq":       {flags: flags("c d f= i s= u w= count repeated unique"), args: uniqArgs},
	"cut":        {flags: flags("b= c= d= f= s delimiter= fields= characters= complement"), args: readArgs},
	"tr":         {flags: flags("c C d s delete squeeze-repeats complement"), args: anyArgs},
	"diff":       {flags: flags("u U= c q r N w b B i a y brief recursive unified? new-file ignore-all-space color?"), args: readArgs, number: true},
	"cmp":        {flags: flags("s l b"), args: readArgs},
	"stat":       {flags: flags("c= f L t x format="), args: readArgs},
	"file":       {flags: flags("b i L mime-type brief"), args: readArgs},
	"du":         {flags: flags("a b c d= h k m s summarize human-readable max-depth="), args: folderArgs},
	"tree":       {flags: flags("L= a d f I= P= s h p"), args: folderArgs},
	"basename":   {flags: flags("a s="), args: anyArgs},
	"dirname":    {flags: flags(""), args: anyArgs},
	"realpath":   {flags: flags("e m s"), args: readArgs},
	"readlink":   {flags: flags("e f m n"), args: readArgs},
	"which":      {flags: flags("a"), args: anyArgs},
	"command -v": {flags: flags(""), args: anyArgs},
	"date":       {flags: flags("u I? utc iso-8601? rfc-3339="), args: dateArgs},
	"sleep":      {flags: flags(""), args: anyArgs},
	"sha256sum":  {flags: flags("b t"), args: readArgs},

	"mkdir": {flags: flags("p v m= parents verbose mode="), args: writeArgs, flagsFirst: true},
	"touch": {flags: flags("a c m"), args: writeArgs, flagsFirst: true},
	"tee":   {flags: flags("a append"), args: writeArgs, flagsFirst: true},
	"cp":    {flags: flags("f i n p v preserve?"), args: copyArgs, flagsFirst: true},
	"mv":    {flags: flags("f i n v"), args: moveArgs, flagsFirst: true},
	"rm":    {flags: flags("f i r R v d force recursive verbose"), args: deleteArgs, flagsFirst: true},
	"rmdir": {flags: flags("p v"), args: deleteArgs, flagsFirst: true},

	"go test":    {flags: flags(goTest), args: packageArgs, single: true},
	"go build":   {flags: flags(goBuild), args: buildArgs, single: true},
	"go vet":     {flags: flags("v json tags= c= n"), args: packageArgs, single: true},
	"go list":    {flags: flags(goListed), args: packageArgs, single: true},
	"go doc":     {flags: flags("all short src u c cmd"), args: anyArgs, single: true},
	"go fmt":     {flags: flags("n"), args: goFmtArgs, single: true},
	"go version": {flags: flags("m v"), args: readArgs, single: true},
	"gofmt":      {flags: flags("l d e s w"), args: formatArgs, single: true},

	"git status":    {flags: flags("s b u? short branch porcelain? untracked-files? ignored? no-renames v z"), args: repositoryArgs},
	"git diff":      {flags: flags(gitDiff), args: repositoryArgs},
	"git log":       {flags: flags(gitLog), args: repositoryArgs, number: true},
	"git show":      {flags: flags(gitLog), args: repositoryArgs, number: true},
	"git blame":     {flags: flags("L= w M C e l s t date= porcelain"), args: repositoryArgs},
	"git branch":    {flags: flags("a r v l list show-current all remotes"), args: repositoryOnly},
	"git rev-parse": {flags: flags("short? abbrev-ref? show-toplevel verify q is-inside-work-tree HEAD"), args: repositoryArgs},
	"git ls-files":  {flags: flags("c d m o s z cached deleted modified others stage exclude-standard"), args: repositoryArgs},
	"git add":       {flags: flags("A u v n all update verbose dry-run N intent-to-add"), args: repositoryArgs},
	"git commit":    {flags: flags("m= a q s v message= all quiet signoff no-edit amend allow-empty F< dry-run"), args: messageArgs},

	"curl": {flags: flags("s S f I v silent show-error fail head verbose o> output> m= max-time= connect-timeout= compressed A= user-agent="), args: urlArgs},
}
