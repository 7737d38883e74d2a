"""A runner that does what its first argument says, and never what the protocol says."""

import json
import sys
import time

FEATURES = [
    "keys",
    "merge on read",
    "append",
    "vectors of 64 bits",
    "evolution",
    "snapshots",
    "tags",
    "fresh",
]
READS = ["open", "read"]
ABOUT = {"protocol": 1, "name": "bad", "commands": READS, "features": FEATURES}

WRITER = {
    **ABOUT,
    "commands": [*READS, "create", "write", "compact", "reopen", "snapshots", "files", "vectors"],
    "features": [*FEATURES, "columns", "where", "limit", "retractions"],
}


def say(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


def main(how: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        id, do = request["id"], request["do"]
        if do == "supports":
            say(id=id, ok=WRITER if how == "declines" else ABOUT)
        elif do == "create":
            say(id=id, unsupported="the option file.format")
        elif do == "open" and how != "ends":
            say(id=id, ok=None)
            if how == "leaves":
                sys.exit(4)
        elif how == "ends":
            print("out of memory", file=sys.stderr)
            sys.exit(3)
        elif how == "says nothing":
            time.sleep(60)
        elif how == "tells its zone":
            say(id=id, ok=-time.timezone)
        elif how == "says garbage":
            print("rows: 3", flush=True)
        elif how == "answers another request":
            say(id=id - 1, ok={"rows": []})
        elif how == "answers nothing":
            say(id=id)
        elif how == "answers twice over":
            say(id=id, ok={"rows": []}, refused="no")
        elif how == "answers twice":
            say(id=id, ok={"rows": []})
            say(id=id, ok={"rows": []})
        elif how == "lies":
            say(id=id, unsupported="tables")
        elif how == "gives numbers":
            say(id=id, ok={"rows": [[1, "one"]]})
        elif how == "gives no rows":
            say(id=id, ok={"rows": [1]})
        elif how == "fails":
            say(id=id, error="NullPointerException")


if __name__ == "__main__":
    main(sys.argv[1])
