"""``python -m model_tests.examples``: write the pages of examples again."""

from model_tests.examples.pages import FOLDER, texts

FOLDER.mkdir(exist_ok=True)
for name, text in texts().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
