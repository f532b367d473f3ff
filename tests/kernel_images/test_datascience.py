"""The data science image: everything on its list is there, and plots speak every language."""

from __future__ import annotations

import docker

from interpreter.runtimes.images import KernelImage
from tests.kernel_images.containers import run

MODULES = """numpy pandas scipy.stats sklearn.ensemble statsmodels.api pyarrow.parquet duckdb matplotlib.pyplot
seaborn plotly.express altair openpyxl xlsxwriter xlrd pypdf pdfplumber PIL.Image sympy networkx nltk"""

PLOT = """
import logging, warnings
warnings.simplefilter("error")
class Refuse(logging.Handler):
    def emit(self, record): raise RuntimeError(record.getMessage())
logging.getLogger("matplotlib").addHandler(Refuse(logging.WARNING))
import matplotlib.pyplot as plt
greetings = ["漢字 かな 한글", "العربية", "हिन्दी", "বাংলা", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "ગુજરાતી", "ਪੰਜਾਬੀ",
    "ଓଡ଼ିଆ", "සිංහල", "ไทย", "ខ្មែរ", "မြန်မာ", "አማርኛ", "བོད", "עברית", "Ελληνικά", "кириллица", "ქართული", "հայերեն"]
figure, axes = plt.subplots()
for number, greeting in enumerate(greetings):
    axes.text(0, number, greeting)
axes.set_title(greetings[0], weight="bold")
figure.savefig("/tmp/plot.png")
print("plotted")
"""

FILES = """
import duckdb, pandas
table = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
for write, read, name in [
    (table.to_excel, pandas.read_excel, "t.xlsx"), (table.to_parquet, pandas.read_parquet, "t.parquet"),
]:
    write(f"/tmp/{name}", index=False)
    assert read(f"/tmp/{name}").equals(table), name
assert duckdb.sql("select sum(a) from '/tmp/t.parquet'").fetchall() == [(3,)]
print("read back")
"""


def test_everything_on_its_list_can_be_imported(
    engine: docker.APIClient, datascience_image: KernelImage
) -> None:
    modules = [*MODULES.split(), *datascience_image.preload]
    code = f"import {', '.join(modules)}; print('imported')"
    assert run(engine, datascience_image.id, "python", "-c", code) == "imported\n"
    assert "No broken requirements" in run(engine, datascience_image.id, "pip", "check")


def test_a_plot_has_a_glyph_for_every_script(
    engine: docker.APIClient, datascience_image: KernelImage
) -> None:
    assert run(engine, datascience_image.id, "python", "-c", PLOT) == "plotted\n"


def test_tables_are_written_and_read_back(
    engine: docker.APIClient, datascience_image: KernelImage
) -> None:
    assert run(engine, datascience_image.id, "python", "-c", FILES) == "read back\n"
