"""The dashboard: ``streamlit run app.py -- --store PATH_OR_URL``, or rather ``turnlens dashboard``.

Pages are files in ``pages/``; each asks the store through ``stores.opened()`` and draws. No page computes a number: they come
from the macros in ``queries``.
"""

from turnlens.dashboard import frame

frame.run()
