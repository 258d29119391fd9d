"""Which scikit-sparse `pip install .[cholmod]` asks for."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def loaded():
    spec = importlib.util.spec_from_file_location('sparser_setup', ROOT / 'setup.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(('main', 'sub', 'wanted'), [
    (5, 12, 'scikit-sparse>=0.4.16,<0.5'), (7, 3, 'scikit-sparse>=0.4.16,<0.5'),
    (7, 4, 'scikit-sparse>=0.5,<0.6'), (8, 0, 'scikit-sparse>=0.5,<0.6')])
def test_scikit_sparse_goes_by_the_version_of_suitesparse(tmp_path, main, sub, wanted):
    (tmp_path / 'SuiteSparse_config.h').write_text(
        f'#define SUITESPARSE_MAIN_VERSION {main}\n#define SUITESPARSE_SUB_VERSION    {sub}\n')
    assert loaded().scikit_sparse([str(tmp_path / 'elsewhere'), str(tmp_path)]) == wanted


def test_the_folder_that_is_named_is_looked_at_first(tmp_path, monkeypatch):
    (tmp_path / 'SuiteSparse_config.h').write_text(
        '#define SUITESPARSE_MAIN_VERSION 7\n#define SUITESPARSE_SUB_VERSION 6\n')
    monkeypatch.setenv('SUITESPARSE_INCLUDE_DIR', str(tmp_path))
    assert loaded().EXTRAS['cholmod'] == ['scikit-sparse>=0.5,<0.6']


def test_without_headers_every_version_that_the_solver_knows_will_do(tmp_path):
    assert loaded().scikit_sparse([str(tmp_path)]) == 'scikit-sparse>=0.4.16'
