package main

// examples has one for each verb, for help and manual page.
var examples = map[string]string{
	"quickstart":   "refitd quickstart --for 2m",
	"init":         "refitd init --data ratings.csv --label rating",
	"check config": "refitd check config --config.file refitd.yaml",
	"check event":  "refitd check event --config.file refitd.yaml --event event.json --key u17",
	"replay": "refitd replay --config.file ratings.yaml --data ratings.csv --bootstrap-servers " +
		"127.0.0.1:9092 --topic ratings --rate 1000",
	"run":           "refitd run --config.file refitd.yaml --web.listen-address 127.0.0.1:9464",
	"state inspect": "refitd state inspect --storage.path state --model ratings",
	"state verify":  "refitd state verify --config.file refitd.yaml --model ratings",
	"state accept-gap": "refitd state accept-gap --config.file refitd.yaml --topic ratings --partition 3 --why " +
		"'retention was too short'",
	"state backup":       "refitd state backup --config.file refitd.yaml --output ratings.backup",
	"state restore":      "refitd state restore --config.file refitd.yaml --input ratings.backup --why 'disk replaced'",
	"state rebuild":      "refitd state rebuild --config.file refitd.yaml --why 'schema changed'",
	"state forget":       "refitd state forget --config.file refitd.yaml --field user --value u17 --why 'request 4711'",
	"fit":                "refitd fit --data u.data --format movielens --store snapshots --model ratings",
	"backtest":           "refitd backtest --config.file refitd.yaml --data ratings.csv --plot loss.svg",
	"eval":               "refitd eval --store snapshots --model ratings --data test.jsonl --require 'rmse<=0.95'",
	"score":              `echo '{"user":"196","item":"242"}' | refitd score --store snapshots --model ratings`,
	"versions list":      "refitd versions list --store snapshots --model ratings",
	"versions alias":     "refitd versions alias --store snapshots --model ratings",
	"versions diff":      "refitd versions diff --store snapshots --model ratings 12 champion",
	"versions reproduce": "refitd versions reproduce --store snapshots --model ratings --version 12",
	"versions promote": "refitd versions promote --store snapshots --model ratings --version 12 --why 'better on " +
		"new users'",
	"versions rollback":       "refitd versions rollback --store snapshots --model ratings --why 'complaints since noon'",
	"versions log":            "refitd versions log --store snapshots --model ratings --at 2026-01-02T15:04:05Z",
	"versions prune":          "refitd versions prune --store snapshots --model ratings --keep 10 --dry-run",
	"keys new":                "refitd keys new --out keys",
	"versions export onnx":    "refitd versions export onnx --store snapshots --model ratings --output ratings.onnx",
	"versions export vectors": "refitd versions export vectors --store snapshots --model m --over item --output i.parquet",
	"versions export oci":     "refitd versions export oci --store snapshots --model m --to registry.example.org/models",
	"versions export jsonl":   "refitd versions export jsonl --storage.path state --model ratings --output sample.jsonl",
	"versions export libsvm":  "refitd versions export libsvm --storage.path state --model ratings --output sample.svm",
	"completion":              "refitd completion bash > /etc/bash_completion.d/refitd",
	"man":                     "refitd man > /usr/local/share/man/man1/refitd.1",
	"version":                 "refitd version --bom > refitd.cdx.json",
}
